"""Engines draw the actions. Both draw by the same rules and step the same `Run`."""
