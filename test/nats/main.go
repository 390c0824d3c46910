// Command nats is a NATS server with JetStream, for tests: alone, or one of a cluster. It prints
// the address that clients use, and runs until it is killed.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	o := &server.Options{Host: "127.0.0.1", JetStream: true, NoSigs: true}
	flag.StringVar(&o.ServerName, "name", "one", "name of the server")
	flag.StringVar(&o.StoreDir, "dir", "", "folder of its data")
	flag.IntVar(&o.Port, "port", 0, "port for clients, 0 for a free one")
	flag.IntVar(&o.Cluster.Port, "cluster", 0, "port for the servers of its cluster, 0 for none")
	flag.StringVar(&o.Username, "user", "", "name that clients give; none is asked for without it")
	flag.StringVar(&o.Password, "password", "", "password of this user")
	routes := flag.String("routes", "", "HOST:PORT of all servers of the cluster, with commas between")
	flag.Parse()
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if o.Cluster.Port != 0 {
		o.Cluster.Host, o.Cluster.Name = "127.0.0.1", "test"
		for at := range strings.SplitSeq(*routes, ",") {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: at})
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		log.Fatal("the server does not start")
	}
	fmt.Println(s.ClientURL())
	s.WaitForShutdown()
}
