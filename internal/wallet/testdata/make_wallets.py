"""Makes the key files that the tests read, with the real bittensor-wallet.

    python -m venv v && v/bin/pip install bittensor-wallet==4.1.1
    v/bin/python make_wallets.py 4.1.1 testdata

once for each of 4.1.1, 3.1.0 and 2.0.2. Every key here is thrown away: it is
made for these files and holds nothing.
"""

import pathlib
import shutil
import sys

import bittensor_wallet as bt

PASSWORD = "kymogram test password"


def main() -> None:
    version, out = sys.argv[1], pathlib.Path(sys.argv[2]).resolve() / sys.argv[1]
    shutil.rmtree(out, ignore_errors=True)
    for hotkey, phrase in (("plain", None), ("second", None)):
        wallet = bt.Wallet(name="w", hotkey=hotkey, path=str(out))
        if hotkey == "plain":
            wallet.create_new_coldkey(use_password=False, suppress=True, overwrite=True)
        wallet.create_new_hotkey(use_password=False, suppress=True, overwrite=True)
    if version == "4.1.1":
        sealed = bt.Wallet(name="w", hotkey="sealed", path=str(out))
        sealed.create_new_hotkey(use_password=False, suppress=True, overwrite=True)
        file = pathlib.Path(sealed.hotkey_file.path)
        plain = file.read_bytes()
        file.write_bytes(bt.keyfile.encrypt_keyfile_data(plain, PASSWORD))
    # Signatures and addresses by the package, for the tests to check.
    wallet = bt.Wallet(name="w", hotkey="plain", path=str(out))
    key = wallet.hotkey
    (out / "signed.txt").write_text(
        f"{key.ss58_address}\n{key.public_key.hex()}\n{key.sign(b'kymogram').hex()}\n"
    )


main()
