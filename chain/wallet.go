package chain

import (
	"log/slog"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/internal/wallet"
)

// Wallet is a hotkey that signs. Printing or logging it shows its address only.
type Wallet struct {
	public  wallet.Account
	key     *wallet.Key // nil: only the public half is known
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
	return &Wallet{public: key.Account(), key: key, coldkey: coldkey(folder), Warnings: warnings}, nil
}

// OpenPublicWallet reads the public half of a hotkey, from HOTKEYpub.txt or a hotkey that is
// not encrypted. Path and name are those of OpenWallet. The wallet cannot sign.
func OpenPublicWallet(path, name string) (*Wallet, error) {
	folder, err := wallet.ParseFolder(path, name)
	if err != nil {
		return nil, err
	}
	account, err := folder.Public()
	if err != nil {
		return nil, err
	}
	return &Wallet{public: account, coldkey: coldkey(folder)}, nil
}

// coldkey is "" where the wallet has no coldkeypub.txt.
func coldkey(folder wallet.Folder) string {
	cold, err := folder.Coldkey()
	if err != nil {
		return ""
	}
	return cold.String()
}

// SeedWallet is a wallet of a 32-byte seed, for programs that keep keys elsewhere.
func SeedWallet(seed [32]byte) (*Wallet, error) {
	key, err := wallet.NewKey(seed)
	if err != nil {
		return nil, err
	}
	return &Wallet{public: key.Account(), key: key}, nil
}

// Hotkey is the address that signs.
func (w *Wallet) Hotkey() string { return w.public.String() }

// Coldkey is the owner's address, "" where the wallet has no coldkeypub.txt.
func (w *Wallet) Coldkey() string { return w.coldkey }

// String shows the hotkey's address.
func (w *Wallet) String() string { return w.Hotkey() }

// LogValue shows the hotkey's address.
func (w *Wallet) LogValue() slog.Value { return slog.StringValue(w.Hotkey()) }

func (w *Wallet) account() substrate.Account {
	return substrate.Account{Public: w.public, Address: w.Hotkey(), Signer: w}
}

// Account is the public half of the hotkey.
func (w *Wallet) Account() wallet.Account { return w.public }

// Sign signs a message with the hotkey, as sr25519 under the context "substrate".
// Wrap what is no extrinsic, so that it can never be read as one.
func (w *Wallet) Sign(message []byte) ([wallet.SignatureBytes]byte, error) {
	if w.key == nil {
		return [wallet.SignatureBytes]byte{}, model.Errorf(model.CodeInvalid, "the wallet of %s holds no secret and cannot sign", w.Hotkey()).
			WithHint("open the hotkey's own file with OpenWallet")
	}
	return w.key.Sign(message)
}
