// The call sites that allocate blocks: compiled code calls other functions of the runtime for each.
package main

import "unsafe"

const (
	makeSite = iota
	arraySite
	pointerSite
	appendSite
	siteCount
)

// The call site of the present trace.
var chosenSite int64

// A type of that size, which code allocates by new.
type sized struct {
	size int
	make func() unsafe.Pointer
}

// The pointer is never one: the block's number, which is written there, is less than any address.
type withPointer[T any] struct {
	_ *byte
	_ T
}

func newOf[T any]() unsafe.Pointer {
	return unsafe.Pointer(new(T))
}

//go:noinline
func newBlock(size int) []byte {
	switch chosenSite {
	case arraySite:
		if size > 0 {
			return newSized(arrays, size)
		}
	case pointerSite:
		return newSized(structs, size)
	case appendSite:
		return append([]byte(nil), zeros[:size]...)
	}
	return make([]byte, size)
}

// The least type that has room. Inlined, it would change what the stack walk of each site takes from the
// generator in Go 1.19, and so the contract of earlier traces.
//
//go:noinline
func newSized(types []sized, size int) []byte {
	index := 0
	for types[index].size < size {
		index++
	}
	return unsafe.Slice((*byte)(types[index].make()), size)
}

var zeros [1 << 20]byte

// Each size that shares a block, and each size class.
var arrays = []sized{
	{1, newOf[[1]byte]}, {2, newOf[[2]byte]}, {3, newOf[[3]byte]}, {4, newOf[[4]byte]},
	{5, newOf[[5]byte]}, {6, newOf[[6]byte]}, {7, newOf[[7]byte]}, {8, newOf[[8]byte]},
	{9, newOf[[9]byte]}, {10, newOf[[10]byte]}, {11, newOf[[11]byte]}, {12, newOf[[12]byte]},
	{13, newOf[[13]byte]}, {14, newOf[[14]byte]}, {15, newOf[[15]byte]}, {16, newOf[[16]byte]},
	{24, newOf[[24]byte]}, {32, newOf[[32]byte]}, {48, newOf[[48]byte]}, {64, newOf[[64]byte]},
	{80, newOf[[80]byte]}, {96, newOf[[96]byte]}, {112, newOf[[112]byte]}, {128, newOf[[128]byte]},
	{144, newOf[[144]byte]}, {160, newOf[[160]byte]}, {176, newOf[[176]byte]},
	{192, newOf[[192]byte]}, {208, newOf[[208]byte]}, {224, newOf[[224]byte]},
	{240, newOf[[240]byte]}, {256, newOf[[256]byte]}, {288, newOf[[288]byte]},
	{320, newOf[[320]byte]}, {352, newOf[[352]byte]}, {384, newOf[[384]byte]},
	{416, newOf[[416]byte]}, {448, newOf[[448]byte]}, {480, newOf[[480]byte]},
	{512, newOf[[512]byte]}, {576, newOf[[576]byte]}, {640, newOf[[640]byte]},
	{704, newOf[[704]byte]}, {768, newOf[[768]byte]}, {896, newOf[[896]byte]},
	{1024, newOf[[1024]byte]}, {1152, newOf[[1152]byte]}, {1280, newOf[[1280]byte]},
	{1408, newOf[[1408]byte]}, {1536, newOf[[1536]byte]}, {1792, newOf[[1792]byte]},
	{2048, newOf[[2048]byte]}, {2304, newOf[[2304]byte]}, {2688, newOf[[2688]byte]},
	{3072, newOf[[3072]byte]}, {3200, newOf[[3200]byte]}, {3456, newOf[[3456]byte]},
	{4096, newOf[[4096]byte]}, {4864, newOf[[4864]byte]}, {5376, newOf[[5376]byte]},
	{6144, newOf[[6144]byte]}, {6528, newOf[[6528]byte]}, {6784, newOf[[6784]byte]},
	{6912, newOf[[6912]byte]}, {8192, newOf[[8192]byte]}, {9472, newOf[[9472]byte]},
	{9728, newOf[[9728]byte]}, {10240, newOf[[10240]byte]}, {10880, newOf[[10880]byte]},
	{12288, newOf[[12288]byte]}, {13568, newOf[[13568]byte]}, {14336, newOf[[14336]byte]},
	{16384, newOf[[16384]byte]}, {18432, newOf[[18432]byte]}, {19072, newOf[[19072]byte]},
	{20480, newOf[[20480]byte]}, {21760, newOf[[21760]byte]}, {24576, newOf[[24576]byte]},
	{27264, newOf[[27264]byte]}, {28672, newOf[[28672]byte]}, {32768, newOf[[32768]byte]},
}

var structs = []sized{
	{8, newOf[*byte]}, {16, newOf[withPointer[[8]byte]]}, {24, newOf[withPointer[[16]byte]]},
	{32, newOf[withPointer[[24]byte]]}, {48, newOf[withPointer[[40]byte]]},
	{64, newOf[withPointer[[56]byte]]}, {80, newOf[withPointer[[72]byte]]},
	{96, newOf[withPointer[[88]byte]]}, {112, newOf[withPointer[[104]byte]]},
	{128, newOf[withPointer[[120]byte]]}, {144, newOf[withPointer[[136]byte]]},
	{160, newOf[withPointer[[152]byte]]}, {176, newOf[withPointer[[168]byte]]},
	{192, newOf[withPointer[[184]byte]]}, {208, newOf[withPointer[[200]byte]]},
	{224, newOf[withPointer[[216]byte]]}, {240, newOf[withPointer[[232]byte]]},
	{256, newOf[withPointer[[248]byte]]}, {288, newOf[withPointer[[280]byte]]},
	{320, newOf[withPointer[[312]byte]]}, {352, newOf[withPointer[[344]byte]]},
	{384, newOf[withPointer[[376]byte]]}, {416, newOf[withPointer[[408]byte]]},
	{448, newOf[withPointer[[440]byte]]}, {480, newOf[withPointer[[472]byte]]},
	{512, newOf[withPointer[[504]byte]]},
}
