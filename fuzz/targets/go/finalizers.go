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
	target func() *object // Of a weak reference: what it refers to, or nil.
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

type answerFields map[string]any

// A call of a finalizer, or of a cleanup, which has no object.
type called struct {
	number int64
	obj    *object
}

// The calls of a trace. Each trace has its own ones, so finalizers of earlier traces do nothing.
type calls struct {
	lock       sync.Mutex
	finalizers []called
	cleanups   []called
}

func (all *calls) add(to *[]called, call called) {
	all.lock.Lock()
	defer all.lock.Unlock()
	*to = append(*to, call)
}

// Returns the numbers of all calls, and drops these; it keeps the objects of finalizers if asked.
func (all *calls) take(keep bool) []int64 {
	all.lock.Lock()
	defer all.lock.Unlock()
	numbers := []int64{}
	for _, call := range append(all.cleanups, all.finalizers...) {
		numbers = append(numbers, call.number)
	}
	kept = nil
	if keep {
		kept = all.finalizers
	}
	all.cleanups, all.finalizers = nil, nil
	return numbers
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
		`%s}%s, "version": "%s"}`
)

var (
	roots   []*object
	kept    []called
	pending *calls
)

func serveFinalizers() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		written, _ := json.Marshal(answerTo(lines.Bytes()))
		fmt.Println(string(written))
	}
}

func answerTo(line []byte) (result answerFields) {
	defer func() {
		if problem := recover(); problem != nil {
			result = answerFields{"error": fmt.Sprintf("ValueError: %v", problem)}
		}
	}()
	var asked action
	check(json.Unmarshal(line, &asked))
	if asked.Gcfuzz != nil {
		roots, kept, pending = nil, nil, &calls{}
		stated := fmt.Sprintf(contract, newActions, newFields, newPromise, newReads, runtime.Version())
		return answerFields{"contract": json.RawMessage(stated)}
	}
	before := collections()
	result = answerFields{}
	carryOut(asked, result)
	if minors := collections() - before; minors > 0 {
		result["minors"] = minors
		result["graph"] = walk()
	}
	return result
}

func carryOut(asked action, result answerFields) {
	switch asked.Do {
	case "allocate_node":
		obj := &object{kind: nodeKind, number: asked.Number}
		roots = append(roots, obj)
		if asked.Destructor != nil {
			all, call := pending, called{*asked.Destructor, nil}
			addCleanup(obj, func() { all.add(&all.cleanups, call) })
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
		found := roots[asked.Root].target()
		result["alive"] = found != nil
		if asked.Keep && found != nil {
			roots = append(roots, found)
		} else if asked.Keep {
			roots = append(roots, roots[asked.Root])
		}
	case "write":
		var value *object
		if asked.Value != nil {
			value = roots[*asked.Value]
		}
		roots[asked.Root].refs()[asked.Field] = value
	case "write_number":
		roots[asked.Root].number = asked.Number
	case "collect_full":
		collectAndWait()
	case "register_finalizer":
		all, number := pending, asked.Number
		runtime.SetFinalizer(roots[asked.Root], func(obj *object) {
			all.add(&all.finalizers, called{number, obj})
		})
	case "unregister_finalizer":
		runtime.SetFinalizer(roots[asked.Root], nil)
	case "run_finalizers":
		result["finalized"] = pending.take(asked.Keep)
	case "resurrect":
		for _, call := range kept {
			if call.number == asked.Number {
				roots = append(roots, call.obj)
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

// Collects, and waits until the finalizers and cleanups that this has queued have run. One goroutine
// runs those of a kind in batches. It begins the second batch when all of the first one have run.
func collectAndWait() {
	for range [2]int{} {
		hasRun := make(chan bool, 2)
		runtime.SetFinalizer(&object{}, func(*object) { hasRun <- true })
		addCleanup(&object{}, func() { hasRun <- true })
		runtime.GC()
		<-hasRun
		<-hasRun
	}
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
