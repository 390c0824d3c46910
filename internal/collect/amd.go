package collect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// askAMD reads the cards of a machine that has rocm-smi and no nvidia-smi. It keeps to the
// format that ROCm documents; it was not tried on a card.
func (g *gpu) askAMD() ([]Sample, error) {
	text, err := g.program(g.rocm, "--showproductname", "--showuse", "--showmeminfo", "vram", "--showtemp", "--showpower", "--json")
	if err != nil || strings.TrimSpace(text) == "" {
		return nil, err
	}
	return parseAMD(text)
}

// amdFields are the samples by what rocm-smi calls them; versions differ in case and words.
func amdFields() []struct{ name, unit, starts string } {
	return []struct{ name, unit, starts string }{
		{GPUUtilization, unitPercent, "gpu use (%)"},
		{GPUMemoryUsed, unitBytes, "vram total used memory (b)"},
		{GPUMemoryTotal, unitBytes, "vram total memory (b)"},
		{GPUTemperature, "celsius", "temperature (sensor edge) (c)"},
		{GPUPower, "watts", "average graphics package power (w)"},
		{GPUPower, "watts", "current socket graphics package power (w)"},
	}
}

// parseAMD reads one object a card, "card0": {"GPU use (%)": "3", …}.
func parseAMD(text string) ([]Sample, error) {
	var cards map[string]map[string]string
	if err := json.Unmarshal([]byte(text), &cards); err != nil {
		return nil, fmt.Errorf("read graphics cards: the answer of rocm-smi is not what was asked for: %w", err)
	}
	names := make([]string, 0, len(cards))
	for name := range cards {
		if strings.HasPrefix(name, "card") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []Sample
	for _, name := range names {
		out = append(out, amdCard(strings.TrimPrefix(name, "card"), cards[name])...)
	}
	return out, nil
}

func amdCard(id string, told map[string]string) (out []Sample) {
	low := make(map[string]string, len(told))
	for name, value := range told {
		low[strings.ToLower(name)] = value
	}
	labels := []model.Label{{Name: labelGPU, Value: id}, {Name: labelGPUName, Value: low["card series"]}}
	values := map[string]float64{}
	for _, f := range amdFields() {
		v, ok := number(low[f.starts])
		if _, twice := values[f.name]; ok && !twice {
			values[f.name] = v
			out = append(out, Sample{Name: f.name, Labels: slices.Clone(labels), Value: v, Unit: f.unit})
		}
	}
	if total := values[GPUMemoryTotal]; total > 0 {
		out = append(out, Sample{Name: GPUMemoryUtilized, Labels: labels, Value: percent * values[GPUMemoryUsed] / total, Unit: unitPercent})
	}
	return out
}
