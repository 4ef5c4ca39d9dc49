//go:build go1.24

package main

import "weak"

const (
	newActions = `"allocate_weakref", "read_weakref", `
	newFields  = `"alive", `
)

type weakref = weak.Pointer[object]

func makeWeakref(target *object) weakref {
	return weak.Make(target)
}
