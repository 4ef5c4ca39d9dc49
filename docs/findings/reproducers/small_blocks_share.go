// Two sites allocate equally many small blocks while every block is profiled; the profile has one site.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

const rounds = 1000

var kept []*byte

//go:noinline
func first() *byte { return new(byte) }

//go:noinline
func second() *byte { return new(byte) }

func main() {
	runtime.MemProfileRate = 1
	for i := 0; i < rounds; i++ {
		kept = append(kept, first(), second())
	}
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 10_000)
	count, _ := runtime.MemProfile(records, true)
	objects := map[string]int64{}
	for _, record := range records[:count] {
		for _, call := range record.Stack() {
			name := runtime.FuncForPC(call - 1).Name()
			if strings.HasPrefix(name, "main.") && name != "main.main" {
				objects[name] += record.AllocObjects
			}
		}
	}
	fmt.Printf("allocated %d and %d, in the profile %d and %d\n", rounds, rounds,
		objects["main.first"], objects["main.second"])
	runtime.KeepAlive(kept)
	if objects["main.first"] != rounds || objects["main.second"] != rounds {
		os.Exit(1)
	}
}
