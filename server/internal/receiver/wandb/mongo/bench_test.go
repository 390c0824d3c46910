package mongo

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// record is a Record whose fields are at hand, as a catalog gives them.
type record map[string][]byte

func (r record) Field(name string) ([]byte, bool) { v, ok := r[name]; return v, ok }

// tenThousand are runs with a config of 2 kB, of which one in ten fits.
func tenThousand() []record {
	runs := make([]record, 10_000)
	for i := range runs {
		var b strings.Builder
		fmt.Fprintf(&b, `{"hotkey":{"value":"5F3sa2TJAWMqDhXG6jhV4N8ko9SxwGy8TpaNS1repo5%05d"},"specs":{"value":{"cpu":{"count":%d,"frequency":2.5e9},"has_docker":true}}`, i, i%64)
		for n := 0; b.Len() < 1900; n++ {
			fmt.Fprintf(&b, `,"option_%d":{"value":{"rate":%g,"name":"some words of a setting","on":true,"list":[1,2,3]}}`, n, 0.001*float64(n))
		}
		fmt.Fprintf(&b, `,"config":{"value":{"netuid":%d,"subtensor":{"network":"finney"}}},"role":{"value":"%s"}}`, 27*(i%2), []string{"miner", "validator"}[min(i%5, 1)])
		runs[i] = record{"config": []byte(b.String()), "state": []byte(`"running"`)}
	}
	return runs
}

func BenchmarkMatch(b *testing.B) {
	runs := tenThousand()
	for name, text := range map[string]string{
		"both":  `{"config.config.subtensor.network":"finney","config.specs":{"$exists":true}}`, // no run is out after the first
		"two":   `{"config.role":"miner","config.config.netuid":27}`,
		"regex": `{"config.role":{"$regex":"^min"},"config.config.netuid":{"$gt":26}}`,
		"in":    `{"$and":[{"config.hotkey":{"$in":["a","5F3sa2TJAWMqDhXG6jhV4N8ko9SxwGy8TpaNS1repo500010"]}},{"state":"running"}]}`,
	} {
		f, err := Parse([]byte(text))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				for _, r := range runs {
					if _, err := f.Match(r); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
}

func BenchmarkKey(b *testing.B) {
	runs := tenThousand()
	o, err := ParseOrder("-config.config.netuid,+name")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range runs {
			o.Key(r)
		}
	}
}

// cpu is the time that this process has used of the processors, which other
// processes do not lengthen.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
