package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJobVariables(t *testing.T) {
	got := jobVariables([]string{
		"SLURM_JOB_ID=7", "SLURM_API_TOKEN=x", "TORCHELASTIC_RUN_ID=https://user:pass@host/", "CUDA_VISIBLE_DEVICES=0,1",
		"SLURM_NOTE=ghp_abc", "HOME=/root", "AWS_SECRET_ACCESS_KEY=x", "SLURM_URL=https://host/a@b",
	})
	want := map[string]any{
		"SLURM_JOB_ID": "7", "SLURM_API_TOKEN": replaced, "TORCHELASTIC_RUN_ID": replaced, "CUDA_VISIBLE_DEVICES": "0,1",
		"SLURM_NOTE": replaced, "SLURM_URL": "https://host/a@b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	cards := parseCards("0, NVIDIA H200, 143771, 570.1\nbroken\n1, X, [N/A], 570.1\n")
	if diff := cmp.Diff(map[string]any{"count": 2, "0": map[string]any{"name": "NVIDIA H200", "driver": "570.1", "memory_mib": int64(143771)}, "1": map[string]any{"name": "X", "driver": "570.1"}}, cards); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
