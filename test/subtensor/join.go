package subtensor

import (
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/internal/wallet"
)

// ownerName is the key that pays for Join; every chain gives it a balance.
const ownerName = "owner"

const ownerBalance = 1 << 50

// Join registers a hotkey in a subnet of the chain at url, by a real burned_register.
func Join(ctx context.Context, url string, netuid int, hotkey wallet.Account) error {
	owner, err := NamedKey(ownerName)
	if err != nil {
		return err
	}
	client, err := substrate.New([]string{url}, substrate.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	from := substrate.Account{Public: owner.Account(), Address: owner.Account().String(), Signer: owner}
	args := map[string]any{"netuid": netuid, "hotkey": hotkey[:]}
	if _, err := client.Submit(ctx, from, "SubtensorModule", "burned_register", args, substrate.WaitInclusion); err != nil {
		return fmt.Errorf("register %s in subnet %d: %w", hotkey, netuid, err)
	}
	return nil
}
