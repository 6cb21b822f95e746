package cardreclaim

import "testing"

// TestQueuesWithoutTheirTreeEvictNothing: if the operator restarts while the ServiceTypePolicy is
// deleted, it puts every queue under root and removes what it deserves. The scheduler still has the
// arguments of the tree. A queue then deserves its quota, so no queue reclaims what was borrowed.
func TestQueuesWithoutTheirTreeEvictNothing(t *testing.T) {
	const jobs = "node n model=A cards=8; job t queue=a min=4 running=n*4 age=24h; job s queue=a min=4 running=n*4 age=23h; job u queue=b min=4 pending=4"
	newTree("p quota=8 deserved=8; a parent=p quota=8 deserved=4 serviceType=training; b parent=p quota=8 deserved=4 serviceType=training", jobs).runAction(t).expectEvictedAndPlaced(t, "s*4", "u-0@n u-1@n u-2@n u-3@n")
	newTree("p quota=0", `queue a quota={"A":8} priority=20000 serviceType=training cpu=1000; queue b quota={"A":8} priority=20000 serviceType=training cpu=1000;`+jobs).runAction(t).expectEvictedAndPlaced(t, "", "")
}
