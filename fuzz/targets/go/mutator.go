// The mutator of the targets `go` and `go-finalizers`: it carries out what comes on standard input. With
// an argument it serves the latter: finalizers.go.
//
// A question is two numbers, and an answer four. Once it serves, it allocates only the requested
// blocks. Invariant: the sampler's generator is set at a trace's start, restored after a collection,
// and read on request; the bytes until the next sample are never read.
package main

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
	"unsafe"
)

const (
	begin = iota
	seed
	look
	allocate
	free
	setRate
	profile
	collect
	setCollector
	compare
	read
	setSite
)

const (
	recordsMax = 1 << 12
	blocksMax  = 1 << 14
	never      = -1 // The percentage of growth with which the collector runs only on request.
)

var (
	question    [2]int64
	answer      [4]int64
	blocks      = make([]*byte, 0, blocksMax) // A collection scans all of it.
	sizes       [blocksMax]int
	numbers     [blocksMax]int64 // Of the blocks: they determine what is written into them.
	newest      int64
	period      [1 << 16]byte
	records     = make([]runtime.MemProfileRecord, recordsMax)
	statistics  debug.GCStats
	samples     int64 // Of all requested blocks: what sampled returned after the last one.
	asked, done = make(chan bool), make(chan bool)
	// The address of the call that requests a block, which is in the stack of each.
	request uintptr

	// Places from the program's own file.
	generator  unsafe.Pointer // Of the first thread; it draws the distances.
	isWide     bool           // Whether it has 64 bits.
	hasRate    bool           // Whether each processor remembers the rate of its last sample.
	inUse      *int           // The number of uses of the first thread's cache for stack walks.
	cycle      *uint32        // The cycle of the profile, which shows allocations three collections later.
	postSweep  func()         // Publishes the allocations of the next cycle.
	scale      func(count, size, rate int64) (int64, int64)
	scalesSize bool // Whether it takes the size of one block.
)

func init() {
	// The main goroutine keeps the first thread.
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1)
	for place := range period {
		period[place] = byte(uint32(place) * 2654435761 >> 24)
	}
	debug.SetGCPercent(never)
}

func main() {
	if len(os.Args) > 2 {
		pprof.WriteHeapProfile(os.Stdout) // Never runs; it links the function.
	}
	if len(os.Args) > 1 {
		runtime.UnlockOSThread()
		serveFinalizers()
		return
	}
	findPlaces()
	go collectWhenAsked()
	warmUp()
	fmt.Printf("%-32.32s%-16t%-16t", runtime.Version(), isWide, hasRate)
	for transfer(syscall.SYS_READ, 0, unsafe.Pointer(&question), unsafe.Sizeof(question)) {
		answer = [4]int64{}
		perform(question[1])
		answer[3] = collections()
		transfer(syscall.SYS_WRITE, 1, unsafe.Pointer(&answer), unsafe.Sizeof(answer))
	}
}

func collections() int64 {
	debug.ReadGCStats(&statistics)
	return statistics.NumGC
}

// The call bypasses the scheduler, so that the thread keeps its processor.
func transfer(call uintptr, file uintptr, data unsafe.Pointer, size uintptr) bool {
	done, _, _ := syscall.RawSyscall(call, file, uintptr(data), size)
	return done == size
}

func perform(number int64) {
	switch question[0] {
	case begin:
		beginTrace(int(number))
	case seed:
		setState(number)
	case look:
		answer[0] = state()
	case allocate:
		if len(blocks) == blocksMax || number < 0 {
			answer[2] = -1
			break
		}
		before := samples
		block := newBlock(int(number))
		samples = sampled()
		answer[0] = samples - before
		newest++
		sizes[len(blocks)], numbers[len(blocks)] = int(number), newest
		// A block of 0 bytes may have an address, too.
		blocks = append(blocks, *(**byte)(unsafe.Pointer(&block)))
		for offset := range block {
			answer[2] |= int64(block[offset]) // It was zero.
			block[offset] = byteOf(newest, offset)
		}
	case free:
		if number < 0 || number >= int64(len(blocks)) {
			answer[2] = -1
			break
		}
		if firstWrong(number) < sizes[number] {
			answer[2] = 1
		}
		copy(blocks[number:], blocks[number+1:])
		copy(sizes[number:], sizes[number+1:len(blocks)])
		copy(numbers[number:], numbers[number+1:len(blocks)])
		blocks[len(blocks)-1] = nil
		blocks = blocks[:len(blocks)-1]
	case setRate:
		runtime.MemProfileRate = int(number)
	case profile:
		// A block that small blocks share survives the first.
		collectAll()
		collectAll()
		answer[0], answer[1] = totals()
	case collect:
		collectAll()
	case setCollector:
		debug.SetGCPercent(int(number))
	case compare:
		answer[0], answer[1] = int64(firstWrong(number)), int64(sizes[number])
	case read:
		// The number of a block, and an offset in it.
		answer[0] = int64(contents(number >> 32)[uint32(number)])
	case setSite:
		chosenSite = number
	}
}

func contents(number int64) []byte {
	return unsafe.Slice(blocks[number], sizes[number])
}

// The byte of a block with that number: docs/protocol.md, contents.
func byteOf(number int64, offset int) byte {
	if offset < 8 {
		return byte(number >> (8 * offset))
	}
	return period[(number*40503+int64(offset))&0xffff]
}

// The offset of the first byte that has changed, or the size.
func firstWrong(number int64) int {
	for offset, each := range contents(number) {
		if each != byteOf(numbers[number], offset) {
			return offset
		}
	}
	return sizes[number]
}

func state() int64 {
	if isWide {
		return *(*int64)(generator)
	}
	return int64(*(*uint32)(generator))
}

func setState(number int64) {
	if isWide {
		*(*int64)(generator) = number
	} else {
		*(*uint32)(generator) = uint32(number)
	}
}

// Collects, and restores the generator: a lock with a waiting thread may take a number, and whether
// a thread waits is chance.
func collectAll() {
	number := state()
	asked <- true
	<-done
	setState(number)
}

// A collection waits for its workers many times. For a goroutine that keeps its thread, as main
// does, each time costs two changes of threads: 520 us a collection instead of 150.
func collectWhenAsked() {
	for range asked {
		runtime.GC()
		done <- true
	}
}

// Drops all blocks, and ends the present distance: the next allocation draws one for this rate.
func beginTrace(rate int) {
	for index := range blocks {
		blocks[index] = nil
	}
	blocks = blocks[:0]
	newest = -1 // The first block is the driver's own.
	collectAll()
	// With this rate each allocation is sampled, and the distance is 0 after it.
	runtime.MemProfileRate = 1
	newBlock(16)
	runtime.MemProfileRate = rate
}

// The number of requested blocks in the profile. The allocations of the next three cycles are
// published now, so that a collection that ended meanwhile leaves none.
func sampled() (ours int64) {
	for range [3]int{} {
		*cycle += 2
		postSweep()
	}
	*cycle -= 6
	count, isComplete := runtime.MemProfile(records, true)
	if !isComplete {
		panic("the profile has too many records")
	}
	for index := 0; index < count; index++ {
		if record := &records[index]; isOurs(record) {
			ours += record.AllocObjects
		}
	}
	return
}

func isOurs(record *runtime.MemProfileRecord) bool {
	for _, call := range record.Stack0 {
		if call == request {
			return true
		}
	}
	return false
}

// The estimates of blocks and bytes in use, as `go tool pprof` computes them.
func totals() (objects int64, bytes int64) {
	sampled()
	count, _ := runtime.MemProfile(records, false)
	for index := 0; index < count; index++ {
		record := &records[index]
		inUse := record.InUseObjects()
		if !isOurs(record) || inUse == 0 {
			continue
		}
		size := record.InUseBytes()
		if scalesSize {
			size /= inUse
		}
		some, theirBytes := scale(inUse, size, int64(runtime.MemProfileRate))
		objects += some
		bytes += theirBytes
	}
	return
}

// Does everything once, so that nothing is allocated for the first time later.
func warmUp() {
	makeThreads()
	runtime.MemProfileRate = 1
	_, size := scale(2, 16, 1)
	scalesSize = size == 32
	if inUse != nil {
		// Otherwise the numbers that a stack walk takes depend on the cache.
		*inUse = 1
	}
	question[0] = allocate
	perform(77_777)
	for _, record := range records {
		if record.AllocObjects == 0 || record.AllocBytes/record.AllocObjects != 81_920 {
			continue
		}
		for _, call := range record.Stack() {
			if runtime.FuncForPC(call-1).Name() == "main.perform" {
				request = call
			}
		}
	}
	for range [3]int{} {
		for chosenSite = siteCount - 1; chosenSite > 0; chosenSite-- {
			beginTrace(1)
			perform(1)
		}
		collections()
		beginTrace(1)
		perform(1)
		totals()
	}
}

// Starts the threads that collections need, since the runtime allocates for each.
func makeThreads() {
	const threads = 16
	started, over := make(chan bool), make(chan bool)
	for range [threads]int{} {
		go func() {
			runtime.LockOSThread()
			started <- true
			<-over
			runtime.UnlockOSThread()
		}()
	}
	for range [threads]int{} {
		<-started
	}
	close(over)
}

// Finds functions and variables by their symbols, and fields by the debug information.
func findPlaces() {
	file, err := elf.Open("/proc/self/exe")
	check(err)
	defer file.Close()
	symbols, err := file.Symbols()
	check(err)
	places := map[string]unsafe.Pointer{}
	for _, symbol := range symbols {
		places[symbol.Name] = unsafe.Add(nil, int(symbol.Value))
	}
	cycle = (*uint32)(places["runtime.mProfCycle"])
	sweep, scaling := places["runtime.mProf_PostSweep"], places["runtime/pprof.scaleHeapSample"]
	sweepAt, scalingAt := &sweep, &scaling
	postSweep = *(*func())(unsafe.Pointer(&sweepAt))
	scale = *(*func(int64, int64, int64) (int64, int64))(unsafe.Pointer(&scalingAt))
	data, err := file.DWARF()
	check(err)
	for entries := data.Reader(); ; {
		entry, err := entries.Next()
		check(err)
		if entry == nil {
			break
		}
		name := entry.Val(dwarf.AttrName)
		if entry.Tag != dwarf.TagStructType || name != "runtime.m" && name != "runtime.mcache" {
			continue
		}
		described, err := data.Type(entry.Offset)
		check(err)
		for _, field := range described.(*dwarf.StructType).Field {
			switch field.Name {
			case "fastrand", "cheaprand":
				generator = unsafe.Add(places["runtime.m0"], int(field.ByteOffset))
				isWide = field.Type.Size() == 8
			case "memProfRate":
				hasRate = true
			case "pcvalueCache":
				cache := field.Type.(*dwarf.TypedefType).Type.(*dwarf.StructType)
				offset := field.ByteOffset + cache.Field[len(cache.Field)-1].ByteOffset
				inUse = (*int)(unsafe.Add(places["runtime.m0"], int(offset)))
			}
		}
	}
	if generator == nil || cycle == nil || sweep == nil || scaling == nil {
		panic("this version of Go is not known")
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
