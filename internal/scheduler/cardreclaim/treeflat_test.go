package cardreclaim

import "testing"

// TestQueuesWithoutTheirTreeEvictNothing: if the operator restarts while the ServiceTypePolicy is
// deleted, it puts every queue under root and removes what it deserves. The scheduler still has the
// arguments of the tree. A queue then deserves its quota, so no queue reclaims what was borrowed.
func TestQueuesWithoutTheirTreeEvictNothing(t *testing.T) {
	const jobs = "node n A 8; t a 4: n*4 ran=24h; s a 4: n*4 ran=23h; u b 4: -*4"
	newTree("p 8/8; a<p 8/4 training; b<p 8/4 training", jobs).runAction(t).expectEvictedAndPlaced(t, "s*4", "u-0@n u-1@n u-2@n u-3@n")
	newTree("p 0", `queue a {"A":8} 20000 training cpu=1000; queue b {"A":8} 20000 training cpu=1000;`+jobs).runAction(t).expectEvictedAndPlaced(t, "", "")
}
