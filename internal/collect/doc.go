// Package collect reads the machine: processors, memory, disk, network, graphics
// cards and single processes. It is the only place that does.
//
// The kernel's files and nvidia-smi go in, [Sample]s come out: names, labels and
// units of the system series of Metrana 1.11, which internal/uplink logs for a run
// and the metrics endpoint serves as families. Utilization is in percent, that of a
// process in percent of one core, so that it may exceed 100. What holds:
//   - What cannot be read is an error beside the samples that can.
//   - Inside a container its limits count as the machine.
//   - A graphics driver that hangs holds one call of nvidia-smi, not one a sample.
//     NVML itself needs cgo, and Kymogram's binary is built without.
//
// Beside the samples stands the [Inventory]: what the machine has, as a miner of the
// compute subnet publishes it. Start at [Collector.Collect].
package collect
