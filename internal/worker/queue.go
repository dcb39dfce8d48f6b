package worker

import "sync"

// queue is a bounded FIFO whose readers take everything that is waiting, up
// to a batch. It bounds items and bytes, because 64 KiB requests would
// otherwise make a bound on items meaningless.
type queue[T any] struct {
	mu       sync.Mutex
	nonEmpty sync.Cond
	notFull  sync.Cond

	items    []entry[T]
	head     int
	bytes    int
	maxItems int
	maxBytes int
	closed   bool
}

type entry[T any] struct {
	value T
	bytes int
}

func newQueue[T any](maxItems, maxBytes int) *queue[T] {
	q := &queue[T]{maxItems: maxItems, maxBytes: maxBytes}
	q.nonEmpty.L, q.notFull.L = &q.mu, &q.mu
	return q
}

func (q *queue[T]) full(bytes int) bool {
	n := len(q.items) - q.head
	return n > 0 && (n >= q.maxItems || q.bytes+bytes > q.maxBytes)
}

// put adds v, or says that there is no room for it.
func (q *queue[T]) put(v T, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.full(bytes) {
		return false
	}
	q.add(v, bytes)
	return true
}

// putWait adds v when there is room. It says no only when the queue is closed.
func (q *queue[T]) putWait(v T, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && q.full(bytes) {
		q.notFull.Wait()
	}
	if q.closed {
		return false
	}
	q.add(v, bytes)
	return true
}

func (q *queue[T]) add(v T, bytes int) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, entry[T]{v, bytes})
	q.bytes += bytes
	q.nonEmpty.Signal()
}

// take waits until something is there and appends up to n items, and no more
// than maxBytes of them but at least one, to dst. After close it hands out
// what is left, and then nothing.
func (q *queue[T]) take(dst []T, n, maxBytes int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.items) && !q.closed {
		q.nonEmpty.Wait()
	}
	taken := 0
	for range min(n, len(q.items)-q.head) {
		e := &q.items[q.head]
		if taken > 0 && taken+e.bytes > maxBytes {
			break
		}
		taken += e.bytes
		dst = append(dst, e.value)
		*e = entry[T]{}
		q.head++
	}
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else {
		q.nonEmpty.Signal()
	}
	q.bytes -= taken
	q.notFull.Broadcast()
	return dst
}

// close lets readers finish what is there and refuses more.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.nonEmpty.Broadcast()
	q.notFull.Broadcast()
}

func (q *queue[T]) depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.head
}
