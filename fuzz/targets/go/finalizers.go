// The target `go-finalizers`: runtime.SetFinalizer of a stock Go, and weak.Pointer and
// runtime.AddCleanup where it has them, behind gcfuzz's protocol.
//
// A finalizer puts its object into a queue, under a lock, since the runtime calls it from another
// goroutine. Invariant: nothing else refers to a dropped object, so the collector alone decides when
// it is dead; and the collector runs only when it is asked to.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// An object: a node has two references, an array as many as its length. Those of a node belong to it
// itself, since a cycle through another object would never be finalized. No object is a tiny one, which
// would share its block.
type object struct {
	kind   int64
	number int64
	two    [2]*object
	items  []*object
	target weakref
}

func (obj *object) refs() []*object {
	if obj.kind == nodeKind {
		return obj.two[:]
	}
	return obj.items
}

type action struct {
	Gcfuzz *int   `json:"gcfuzz"`
	Do     string `json:"do"`
	Root   int    `json:"root"`
	Field  int    `json:"field"`
	Value  *int   `json:"value"`
	Number int64  `json:"number"`
	Length int    `json:"length"`
	Keep   bool   `json:"keep"`

	Destructor *int64 `json:"destructor"`
}

type answer map[string]any

type finalized struct {
	number int64
	obj    *object
}

// A cleanup of the runtime's.
type cleanup struct {
	number int64
	trace  int64
}

const (
	nodeKind    = 1
	arrayKind   = 3
	weakrefKind = 4
	contract    = `{"nursery_bytes": 1024, "layout": {"kinds": {"node": {"type_index": 1, ` +
		`"fixed_bytes": 64}, "array": {"type_index": 3, "fixed_bytes": 64, "item_bytes": 8}, ` +
		`"weakref": {"type_index": 4, "fixed_bytes": 64}}, ` +
		`"large_object_bytes": 1025, "word_bytes": 1, "object_bytes_max": 1024, ` +
		`"nonmovable": "ignored"}, "actions": ` +
		`[%s"allocate_node", "allocate_array", "free", "read", "read_number", "write", ` +
		`"write_number", "collect_full", "register_finalizer", "unregister_finalizer", ` +
		`"run_finalizers", "resurrect", "check_heap"], "observes": [%s"minors", "value", ` +
		`"graph", "finalized"], "finalizers": {"registrations": "one_at_a_time", "order": ` +
		`"referrer_first", "cycles": "never", "weak": "cleared_before"` +
		`%s}, "version": "%s"}`
)

var (
	roots   []*object
	kept    []finalized
	pending []finalized
	cleaned []int64 // The cleanups that were called.
	lock    sync.Mutex
	trace   int64 // Finalizers of earlier traces do nothing.
)

func collections() int64 {
	var statistics debug.GCStats
	debug.ReadGCStats(&statistics)
	return statistics.NumGC
}

func main() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked action
		var result answer
		if err := json.Unmarshal(line, &asked); err != nil {
			result = answer{"error": "ValueError: " + err.Error()}
		} else if asked.Gcfuzz != nil {
			begin()
			fmt.Printf("{\"contract\": "+contract+"}\n", newActions, newFields, newPromise, runtime.Version())
			continue
		} else {
			result = perform(asked)
		}
		written, _ := json.Marshal(result)
		fmt.Println(string(written))
	}
}

func begin() {
	lock.Lock()
	trace++
	roots, kept, pending, cleaned = nil, nil, nil, nil
	lock.Unlock()
}

func perform(asked action) (result answer) {
	defer func() {
		if problem := recover(); problem != nil {
			result = answer{"error": fmt.Sprintf("ValueError: %v", problem)}
		}
	}()
	before := collections()
	result = answer{}
	carryOut(asked, result)
	if minors := collections() - before; minors > 0 {
		result["minors"] = minors
		result["graph"] = walk()
	}
	return result
}

func carryOut(asked action, result answer) {
	switch asked.Do {
	case "allocate_node":
		obj := &object{kind: nodeKind, number: asked.Number}
		roots = append(roots, obj)
		if asked.Destructor != nil {
			addCleanup(obj, clean, cleanup{*asked.Destructor, trace})
		}
	case "allocate_array":
		items := make([]*object, asked.Length)
		roots = append(roots, &object{kind: arrayKind, number: int64(asked.Length), items: items})
	case "allocate_weakref":
		roots = append(roots, &object{kind: weakrefKind, target: makeWeakref(roots[asked.Root])})
	case "free":
		copy(roots[asked.Root:], roots[asked.Root+1:])
		roots[len(roots)-1] = nil
		roots = roots[:len(roots)-1]
	case "read":
		if found := roots[asked.Root].refs()[asked.Field]; found != nil {
			roots = append(roots, found)
			result["value"] = slotOf(found)
		}
	case "read_number":
		result["value"] = roots[asked.Root].number
	case "read_weakref":
		result["alive"] = roots[asked.Root].target.Value() != nil
	case "write":
		var value *object
		if asked.Value != nil {
			value = roots[*asked.Value]
		}
		roots[asked.Root].refs()[asked.Field] = value
	case "write_number":
		roots[asked.Root].number = asked.Number
	case "collect_full":
		collect()
	case "register_finalizer":
		register(roots[asked.Root], asked.Number)
	case "unregister_finalizer":
		runtime.SetFinalizer(roots[asked.Root], nil)
	case "run_finalizers":
		result["finalized"] = runFinalizers(asked.Keep)
	case "resurrect":
		for _, each := range kept {
			if each.number == asked.Number {
				roots = append(roots, each.obj)
				return
			}
		}
		panic("nothing is kept under that number")
	case "check_heap":
		result["graph"] = walk()
	default:
		panic("there is no such action")
	}
}

func slotOf(found *object) int {
	for slot, root := range roots {
		if root == found {
			return slot
		}
	}
	panic("it is not a root")
}

func register(obj *object, number int64) {
	of := trace
	runtime.SetFinalizer(obj, func(obj *object) {
		lock.Lock()
		defer lock.Unlock()
		if of == trace {
			pending = append(pending, finalized{number, obj})
		}
	})
}

func clean(of cleanup) {
	lock.Lock()
	defer lock.Unlock()
	if of.trace == trace {
		cleaned = append(cleaned, of.number)
	}
}

// Collects, and waits until the finalizers and cleanups that this has queued have run. One goroutine
// runs those of a kind in batches. It begins the second batch when all of the first one have run.
func collect() {
	for range [2]int{} {
		hasRun := make(chan bool, 2)
		runtime.SetFinalizer(&object{}, func(*object) { hasRun <- true })
		addCleanup(&object{}, func(cleanup) { hasRun <- true }, cleanup{})
		runtime.GC()
		<-hasRun
		<-hasRun
	}
}

func runFinalizers(keep bool) []int64 {
	lock.Lock()
	defer lock.Unlock()
	numbers := append([]int64{}, cleaned...)
	cleaned, kept = nil, nil
	for _, each := range pending {
		numbers = append(numbers, each.number)
	}
	if keep {
		kept = pending
	}
	pending = nil
	return numbers
}

func walk() [][]int64 {
	rows := map[*object]int64{}
	queue := []*object{}
	visit := func(obj *object) int64 {
		row, isFound := rows[obj]
		if !isFound {
			row = int64(len(queue))
			rows[obj] = row
			queue = append(queue, obj)
		}
		return row
	}
	for _, root := range roots {
		visit(root)
	}
	graph := [][]int64{}
	for index := 0; index < len(queue); index++ {
		row := []int64{queue[index].kind, queue[index].number}
		for field, ref := range queue[index].refs() {
			if ref != nil {
				row = append(row, int64(field), visit(ref))
			}
		}
		graph = append(graph, row)
	}
	return graph
}
