// Nothing: a target that only precompiles headers needs a file.
