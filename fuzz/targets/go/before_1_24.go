//go:build !go1.24

package main

const newActions, newFields, newPromise = "", "", ""

func makeWeakref(*object) func() *object {
	panic("this Go has no weak pointers")
}

func addCleanup(_ *object, clean func()) {
	clean()
}
