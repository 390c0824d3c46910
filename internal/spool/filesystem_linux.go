package spool

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// filesystems names those whose kind matters (magic numbers of statfs(2)); every
// other is taken for a plain local disk.
func filesystems(magic int64) (name string, kind FSKind) {
	switch magic {
	case 0x6969:
		return "nfs", FSNetwork
	case 0xFF534D42, 0xFE534D42, 0x517B:
		return "smb", FSNetwork
	case 0x01021997:
		return "9p", FSNetwork
	case 0x65735546:
		return "fuse", FSNetwork
	case 0x00C36400:
		return "ceph", FSNetwork
	case 0x0BD00BD0:
		return "lustre", FSNetwork
	case 0x47504653:
		return "gpfs", FSNetwork
	case 0x5346414F:
		return "afs", FSNetwork
	case 0x9123683E:
		return "btrfs", FSCopyOnWrite
	case 0x2FC12FC1:
		return "zfs", FSCopyOnWrite
	case 0xCA451A4E:
		return "bcachefs", FSCopyOnWrite
	case 0x01021994:
		return "tmpfs", FSMemory
	case 0x858458F6:
		return "ramfs", FSMemory
	case 0x794C7630:
		return "overlayfs", FSLocal
	case 0xEF53:
		return "ext4", FSLocal
	case 0x58465342:
		return "xfs", FSLocal
	}
	return fmt.Sprintf("0x%x", magic), FSLocal
}

func inspect(path string) (Filesystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Filesystem{}, fmt.Errorf("inspect the file system of %s: %w", path, err)
	}
	name, kind := filesystems(int64(uint32(st.Type)))
	return Filesystem{Name: name, Kind: kind, FreeBytes: int64(st.Bavail) * st.Bsize}, nil
}
