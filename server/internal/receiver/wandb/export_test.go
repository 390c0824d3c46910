package wandb

// Composed is the manifest that parts make, each over those before it, with its digest.
func Composed(parts ...[]byte) (text []byte, digest string, err error) {
	var whole *manifest
	for _, part := range parts {
		m, err := readManifest(part)
		if err != nil {
			return nil, "", err
		}
		for _, e := range m.entries {
			if _, err := e.size(); err != nil {
				return nil, "", err
			}
			_, _ = e.isRef(), e.text("digest")
		}
		if whole != nil {
			m = m.over(whole)
		}
		whole = m
	}
	return whole.text(), whole.digest(), nil
}
