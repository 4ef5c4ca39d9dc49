"""What the parts of gcfuzz exchange, which is also the file format and the wire format.

Actions, observations and contracts as plain data; lines and traces, in which they are written. Read
`actions` first, then `observation` and `contract`. `schema` makes a JSON Schema of them.
"""
