package chain

import "github.com/prometheus/client_golang/prometheus"

// families are what a Registrar shows; none has a label that a user chose.
type families struct{ current, version, block, looked, looks *prometheus.Desc }

func describe() families {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return families{
		desc("kymogram_chain_registered", "1 while the chain's record of this endpoint is right, as of the last look that could tell."),
		desc("kymogram_chain_registered_version", "Version in the chain's record of this endpoint, 100*major+10*minor+patch."),
		desc("kymogram_chain_registered_block", "Block in which this endpoint was last registered."),
		desc("kymogram_chain_looked_timestamp_seconds", "When a look at the chain's record could last tell."),
		desc("kymogram_chain_looks_total", "Looks at the chain's record, by how they ended.", "result"),
	}
}

// Describe implements prometheus.Collector.
func (r *Registrar) Describe(out chan<- *prometheus.Desc) {
	f := describe()
	for _, d := range []*prometheus.Desc{f.current, f.version, f.block, f.looked, f.looks} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (r *Registrar) Collect(out chan<- prometheus.Metric) {
	f, s := describe(), r.Status()
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	current := 0.0
	if s.Current {
		current = 1
	}
	gauge(f.current, current)
	if s.Info != nil {
		gauge(f.version, float64(s.Info.Version))
		gauge(f.block, float64(s.Info.Block))
	}
	if !s.Looked.IsZero() {
		gauge(f.looked, float64(s.Looked.UnixMilli())/1000)
	}
	for _, result := range Results() {
		out <- prometheus.MustNewConstMetric(f.looks, prometheus.CounterValue, float64(s.Counts[result]), string(result))
	}
}
