package chain

import (
	"log/slog"

	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/internal/wallet"
)

// Wallet is a hotkey that signs. Printing or logging it shows its address only.
type Wallet struct {
	key     *wallet.Key
	coldkey string
	// Warnings say who else on this machine could read the key's file.
	Warnings []string
}

// OpenWallet reads the hotkey NAME/HOTKEY (or NAME, for its hotkey "default") in a
// folder of wallets; "" is ~/.bittensor/wallets. It reads the key files of
// bittensor-wallet 2 to 4; password is asked for an encrypted one, and nil refuses
// those. The coldkey's secret is never read.
func OpenWallet(path, name string, password func() (string, error)) (*Wallet, error) {
	folder, err := wallet.ParseFolder(path, name)
	if err != nil {
		return nil, err
	}
	key, warnings, err := folder.Open(password)
	if err != nil {
		return nil, err
	}
	w := &Wallet{key: key, Warnings: warnings}
	if cold, err := folder.Coldkey(); err == nil {
		w.coldkey = cold.String()
	}
	return w, nil
}

// SeedWallet is a wallet of a 32-byte seed, for programs that keep keys elsewhere.
func SeedWallet(seed [32]byte) (*Wallet, error) {
	key, err := wallet.NewKey(seed)
	if err != nil {
		return nil, err
	}
	return &Wallet{key: key}, nil
}

// Hotkey is the address that signs.
func (w *Wallet) Hotkey() string { return w.key.Account().String() }

// Coldkey is the owner's address, "" where the wallet has no coldkeypub.txt.
func (w *Wallet) Coldkey() string { return w.coldkey }

// String shows the hotkey's address.
func (w *Wallet) String() string { return w.Hotkey() }

// LogValue shows the hotkey's address.
func (w *Wallet) LogValue() slog.Value { return slog.StringValue(w.Hotkey()) }

func (w *Wallet) account() substrate.Account {
	return substrate.Account{Public: w.key.Account(), Address: w.Hotkey(), Signer: w.key}
}

// Account is the public half of the hotkey.
func (w *Wallet) Account() wallet.Account { return w.key.Account() }

// Sign signs a message with the hotkey, as sr25519 under the context "substrate".
// Wrap what is no extrinsic, so that it can never be read as one.
func (w *Wallet) Sign(message []byte) ([wallet.SignatureBytes]byte, error) {
	return w.key.Sign(message)
}
