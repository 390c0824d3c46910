package wallet

// ss58Vectors are by scalecodec.utils.ss58.ss58_encode(bytes(range(32)), network).
func ss58Vectors() map[uint16]string {
	return map[uint16]string{
		0:     "11JNArUumxYJcSQpbuxuroRZtcSMVLcy5WbYGt14SRkztH",
		1:     "6nfZMiFsCeghN1uKMUwLp8E542uVY7roudeDDvBTv2v3PbJ",
		2:     "CaKpMFfFVXQrRRNDtMxiiPeiYBCYikNzrBmpuZUvmdQKrUR",
		42:    "5C4iA2und8WV6mbvTBYupm2eZwtxk3wCYUM2SFHXSyQuapGp",
		63:    "7HbZasHFhEskP16fUN2Qkgca98u8tuA8WDynMbnrAvu9VUUu",
		64:    "cEVaD4SjwVPbTCTnwnZGMLCTVaxYkTj13nAkUZfR8d68hWBnP",
		65:    "cLsxRbwPk61ZyCDgdkdZsVsUgx1hZyTJMrNCswQaQFpBuWmh1",
		255:   "yGCjWmoEPVriEQ11ZSixhBhPuvLbDN21ZbthTAnwcZahFjXSR",
		256:   "VBtr2ZpZvfz75d6AJpLp633QNzxxciEXdLUApBiqBZYBw2yVQ",
		1284:  "VdqXXmmLkbdW4EMLvJmYGDLYs3894ytExP2Cx9S3TwrniD3PU",
		10041: "bXgbRLgJ3JPtBKTLDLoTdtdghFW4V1mUAdUAmw7NzFMwGPrkh",
		16383: "yNVL54JLniBp2EhVnWGPByU9gdubjpZgMV9bivrTajT9yTyBh",
	}
}
