//go:build go1.24

package main

import (
	"runtime"
	"weak"
)

const (
	newActions = `"allocate_weakref", "read_weakref", `
	newFields  = `"alive", `
	newPromise = `, "destructors": true`
	newReads   = `, "weak_reads": "kept"`
)

func makeWeakref(target *object) func() *object {
	return weak.Make(target).Value
}

func addCleanup(obj *object, clean func()) {
	runtime.AddCleanup(obj, func(clean func()) { clean() }, clean)
}
