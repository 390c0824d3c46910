package delivery

import "time"

// SetPatience shortens the wait of a test.
func SetPatience(d time.Duration) { patience = d }
