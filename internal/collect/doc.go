// Package collect reads the machine: processors, memory, disk, network, graphics
// cards and single processes. It is the only place that does.
//
// The client logs its samples as the series system/… of a run, and the metrics
// endpoint serves them as families. Names and units are those of Metrana 1.11's
// system series: utilization is in percent, that of a process in percent of one
// core, so that it may exceed 100. Graphics cards are read by nvidia-smi: NVML
// itself needs cgo, and Kymogram's binary is built without.
package collect
