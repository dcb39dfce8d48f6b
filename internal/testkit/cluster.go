package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A cluster has as many nodes as it needs to have primaries.
const (
	clusterNodes = 3
	clusterSlots = 16384
)

// clusterWait bounds how long nodes take to agree; a primary alone waits two
// seconds before it says ok.
const clusterWait = 30 * time.Second

var sharedCluster shared[*cluster]

// Cluster gives a client of the Redis Cluster that all tests of a package
// share: three primaries, each with a third of the slots. The client follows no
// redirect: a command that goes to the wrong node fails.
func Cluster(t testing.TB) *redis.ClusterClient {
	t.Helper()
	c := sharedCluster.use(t, startCluster).client()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

type cluster struct {
	nodes []*RedisServer
	addrs []string
}

func (c *cluster) end() {
	for _, n := range c.nodes {
		n.end()
	}
}

func (c *cluster) client() *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.addrs, MaxRetries: -1, MaxRedirects: -1, ContextTimeoutEnabled: true, ReadTimeout: 2 * time.Second,
		DialerRetries: 1, DisableIdentity: true,
	})
}

// startCluster tries again where somebody took a port that was free.
func startCluster() (*cluster, error) {
	var failed error
	for range 3 {
		c := &cluster{}
		err := c.start()
		if err == nil {
			return c, nil
		}
		c.end()
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func (c *cluster) start() error {
	ports, err := freePorts(2 * clusterNodes)
	if err != nil {
		return err
	}
	buses := ports[clusterNodes:]
	for i, port := range ports[:clusterNodes] {
		node, err := startRedis("--bind", "127.0.0.1", "--port", port, "--cluster-enabled", "yes", "--cluster-port", buses[i])
		if err != nil {
			return err
		}
		c.nodes, c.addrs = append(c.nodes, node), append(c.addrs, "127.0.0.1:"+port)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterWait)
	defer cancel()
	for i, node := range c.nodes {
		if err := c.join(ctx, i, newClient(node.Socket), ports, buses); err != nil {
			return err
		}
	}
	for _, node := range c.nodes {
		if err := agreed(ctx, newClient(node.Socket)); err != nil {
			return err
		}
	}
	return nil
}

// join gives a node its range of slots and, but for the first, introduces it
// to the first.
func (c *cluster) join(ctx context.Context, i int, node *redis.Client, ports, buses []string) error {
	defer node.Close()
	first, next := i*clusterSlots/clusterNodes, (i+1)*clusterSlots/clusterNodes
	if err := node.ClusterAddSlotsRange(ctx, first, next-1).Err(); err != nil {
		return err
	}
	if i == 0 {
		return nil
	}
	return node.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", ports[0], buses[0]).Err()
}

// agreed waits until a node knows all nodes and an owner of every slot.
func agreed(ctx context.Context, node *redis.Client) error {
	defer node.Close()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		info, err := node.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d", clusterNodes)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the nodes do not agree: %w\n%s", ctx.Err(), info)
		case <-poll.C:
		}
	}
}

// freePorts gives ports that nobody listens on now.
func freePorts(n int) ([]string, error) {
	ports := make([]string, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // held until all are chosen, so that all differ
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("listening on %v", l.Addr())
		}
		ports = append(ports, strconv.Itoa(addr.Port))
	}
	return ports, nil
}
