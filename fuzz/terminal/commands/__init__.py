"""The commands of `gcfuzz`, by what they are about. Start reading with `cli`."""
