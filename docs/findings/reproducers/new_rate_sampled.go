// Switches the profile on and off 1,000 times and allocates a block of 16 bytes after each change.
// While it is on, a sample is expected every 512 KiB on average; while it is off, none.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

const rounds, rate = 1000, 512 * 1024

var kept []byte

//go:noinline
func whileOn() []byte { return make([]byte, 16) }

//go:noinline
func whileOff() []byte { return make([]byte, 16) }

func main() {
	debug.SetGCPercent(-1)
	for i := 0; i < rounds; i++ {
		runtime.MemProfileRate = rate
		kept = whileOn()
		runtime.MemProfileRate = 0
		kept = whileOff()
	}
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 10_000)
	count, _ := runtime.MemProfile(records, true)
	sampled := map[string]int64{}
	for _, record := range records[:count] {
		for _, call := range record.Stack() {
			sampled[runtime.FuncForPC(call-1).Name()] += record.AllocObjects
		}
	}
	on, off := sampled["main.whileOn"], sampled["main.whileOff"]
	fmt.Printf("of %d blocks each %d were sampled while it was on, %d while it was off\n", rounds, on, off)
	if on > 10 || off > 0 {
		os.Exit(1)
	}
}
