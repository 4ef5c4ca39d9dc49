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
)

type weakref = weak.Pointer[object]

func makeWeakref(target *object) weakref {
	return weak.Make(target)
}

func addCleanup(obj *object, clean func(cleanup), of cleanup) {
	runtime.AddCleanup(obj, clean, of)
}
