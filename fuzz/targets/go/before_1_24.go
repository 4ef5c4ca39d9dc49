//go:build !go1.24

package main

const newActions, newFields, newPromise, newReads = "", "", "", ""

func makeWeakref(*object) func() *object {
	panic("this Go has no weak pointers")
}

func addCleanup(_ *object, clean func()) {
	clean()
}
