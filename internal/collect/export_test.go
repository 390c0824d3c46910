package collect

// ParseGPU is for the fuzzer.
func ParseGPU(text string) ([]Sample, error) { return parseGPU(text) }
