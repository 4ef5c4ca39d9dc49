//go:build !go1.24

package main

const newActions, newFields = "", ""

type weakref struct{}

func (weakref) Value() *object {
	panic("this Go has no weak pointers")
}

func makeWeakref(*object) weakref {
	panic("this Go has no weak pointers")
}
