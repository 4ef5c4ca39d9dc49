// A sampling counter, and nothing else: no heap, no collector.
//
// It speaks gcfuzz's protocol (docs/protocol.md), so that the rule by which it samples is checked
// allocation by allocation. Every byte counts; whenever more than periodBytes have been counted,
// one sample is taken and that many bytes are forgotten. With --off-by-one it has the mistake that
// such counters tend to have: it compares with >=.
//
// A counter in any language has three parts: a contract, which says what is promised; actions, which
// the counter carries out, and your sampler will in its place; lines, each of which gets one answer.
// `gcfuzz schema` prints a JSON Schema of the lines.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
)

const fixedBytes = 16

type object = map[string]any

var contract = object{
	"nursery_bytes": 1024, // There is none; sizes around this are interesting all the same.
	"layout": object{
		"kinds": object{
			"string": object{"type_index": 1, "fixed_bytes": fixedBytes, "item_bytes": 1},
		},
		"large_object_bytes": 65537,
		"word_bytes":         1,
		"object_bytes_max":   65536,
	},
	"sampling": object{
		"period_bytes": object{"minimum": 1, "maximum": 1048576},
		"disabling":    []string{"drop"},
	},
	"actions":  []string{"allocate_string", "free", "enable_sampling", "disable_sampling"},
	"observes": []string{"samples", "size"},
}

type counter struct {
	offByOne     bool
	periodBytes  int // 0 while sampling is off.
	countedBytes int // Since the last sample.
}

func (c *counter) isDue() bool {
	if c.offByOne {
		return c.countedBytes >= c.periodBytes
	}
	return c.countedBytes > c.periodBytes
}

func (c *counter) allocate(size int) object {
	samples := 0
	if c.periodBytes > 0 {
		c.countedBytes += size
		for ; c.isDue(); samples++ {
			c.countedBytes -= c.periodBytes
		}
	}
	return object{"samples": samples, "size": size}
}

func (c *counter) sample(everyBytes int) object {
	c.periodBytes, c.countedBytes = everyBytes, 0
	return object{}
}

func (c *counter) answer(line []byte) object {
	var message struct {
		Gcfuzz      int
		Do          string
		Length      int
		PeriodBytes int `json:"period_bytes"`
	}
	if err := json.Unmarshal(line, &message); err != nil {
		return object{"error": "JSON: " + err.Error()}
	}
	if message.Gcfuzz != 0 {
		c.sample(0)
		return object{"contract": contract}
	}
	switch message.Do {
	case "allocate_string":
		return c.allocate(fixedBytes + message.Length)
	case "free":
		return object{}
	case "enable_sampling":
		return c.sample(message.PeriodBytes)
	case "disable_sampling":
		return c.sample(0)
	}
	return object{"error": "Action: no such action"}
}

func main() {
	var c counter
	flag.BoolVar(&c.offByOne, "off-by-one", false, "sample as soon as the period is reached")
	flag.Parse()
	lines, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		answers.Encode(c.answer(lines.Bytes()))
	}
}
