"""What a kind of target is: the contract each file in `collectors/gpu/` and `collectors/engines/` fulfils."""
