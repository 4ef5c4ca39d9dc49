// Allocates two million blocks of 16 bytes with a mean sampling distance of 16 bytes, and compares the
// number of samples with the expected number.
package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

const blocks, size = 2_000_000, 16

var kept []byte

//go:noinline
func allocate() []byte { return make([]byte, size) }

func main() {
	debug.SetGCPercent(-1)
	runtime.MemProfileRate = size
	kept = make([]byte, 32<<20) // Ends the distance that was drawn for the old rate.
	for i := 0; i < blocks; i++ {
		kept = allocate()
	}
	runtime.MemProfileRate = 0
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 10_000)
	count, _ := runtime.MemProfile(records, true)
	sampled := int64(0)
	for _, record := range records[:count] {
		for _, call := range record.Stack() {
			if runtime.FuncForPC(call-1).Name() == "main.allocate" {
				sampled += record.AllocObjects
			}
		}
	}
	chance := 1 - math.Exp(-1)
	fair, deviation := blocks*chance, math.Sqrt(blocks*chance*(1-chance))
	fmt.Printf("of %d blocks %.0f +- %.0f should be sampled, and were %d\n", blocks, fair, deviation, sampled)
	if math.Abs(float64(sampled)-fair) > 10*deviation {
		os.Exit(1)
	}
}
