package ring

// ProducerParked reports whether the producer sleeps in Wait, or is about to.
func (r *Ring[T]) ProducerParked() bool { return r.want.Load() != 0 }

// ConsumerParked reports whether the consumer sleeps in Wait, or is about to.
func (d *Doorbell) ConsumerParked() bool { return d.parked.Load() }
