package imagecache

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// collectors are the cache's metrics.
type collectors struct {
	fetches      *prometheus.CounterVec
	fetchedBytes prometheus.Counter
	shared       prometheus.Counter
	evictions    prometheus.Counter
	damaged      prometheus.Counter
	served       *prometheus.CounterVec
}

// newCollectors makes the metrics and registers them if reg is not nil.
func newCollectors(c *Cache, reg prometheus.Registerer) (*collectors, error) {
	m := &collectors{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_image_fetches_total",
			Help: "Images fetched into the cache, by result (ok, source, missing, checksum, too_large, full, disk, unavailable)."}, []string{"result"}),
		fetchedBytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_image_fetched_bytes_total",
			Help: "Bytes fetched into the image cache, failed fetches included."}),
		shared: prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_image_fetches_shared_total",
			Help: "Demands for an image that was already being fetched."}),
		evictions: prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_image_evictions_total",
			Help: "Images evicted from the cache to make room."}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_image_damaged_total",
			Help: "Images of the cache that no longer had their checksum; they are fetched again."}),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_image_downloads_total",
			Help: "Downloads from the image cache, by result (ok, missing, refused for want of the code in the path, failed); each range counts."}, []string{"result"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, x := range []prometheus.Collector{m.fetches, m.fetchedBytes, m.shared, m.evictions, m.damaged, m.served,
		gauge("ironyard_rackd_image_cache_bytes", "Bytes of the images in the cache.", func() float64 { return float64(c.locked(func() int64 { return c.stored })) }),
		gauge("ironyard_rackd_image_cache_max_bytes", "Bound of the image cache in bytes, a share of its disk at most.", func() float64 { return float64(c.bound()) }),
		gauge("ironyard_rackd_image_cache_entries", "Images in the cache.", func() float64 { return float64(c.locked(func() int64 { return int64(len(c.entries)) })) }),
	} {
		if err := reg.Register(x); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

func (c *Cache) locked(read func() int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return read()
}

// fetched counts the end of a fetch. A fetch that was given up is not a failure.
func (m *collectors) fetched(err error) {
	result := "unavailable"
	switch {
	case err == nil:
		result = "ok"
	case errors.Is(err, context.Canceled):
		return
	case errors.Is(err, ErrSource):
		result = "source"
	case errors.Is(err, ErrNotFound):
		result = "missing"
	case errors.Is(err, ErrChecksum):
		result = "checksum"
	case errors.Is(err, ErrTooLarge):
		result = "too_large"
	case errors.Is(err, ErrFull):
		result = "full"
	case errors.Is(err, ErrDisk):
		result = "disk"
	}
	m.fetches.WithLabelValues(result).Inc()
}
