//go:build !go1.24

package main

const newActions, newFields, newPromise = "", "", ""

type weakref struct{}

func (weakref) Value() *object {
	panic("this Go has no weak pointers")
}

func makeWeakref(*object) weakref {
	panic("this Go has no weak pointers")
}

func addCleanup(obj *object, clean func(cleanup), of cleanup) {
	clean(of)
}
