package waitingjobs

import "volcano.sh/volcano/pkg/scheduler/api"

// Job is a job that lacks pods for its minimum and waits for cards only.
type Job struct {
	// Info is the job in the session of Volcano.
	Info *api.JobInfo
	// missing are the pods that it lacks, the largest first.
	missing []*api.TaskInfo
	// borrows is set if its queue would use more than it deserves with them.
	borrows bool
	// IsBelowMinimum is set if other pods of it run.
	IsBelowMinimum bool
}
