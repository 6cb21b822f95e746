package action

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

// takeBackPartial takes back promises that an action before this one made to a part of a
// gang only. The gang cannot start with them, and in the next session they are forgotten,
// but in this one they keep room from others. Volcano's preempt makes them again and again
// where it looks inside a job.
func takeBackPartial(ssn *framework.Session) {
	for _, job := range ssn.Jobs {
		if len(job.TaskStatusIndex[api.Pipelined]) == 0 || ssn.JobPipelined(job) {
			continue
		}
		promised := framework.NewStatement(ssn)
		var tasks []*api.TaskInfo
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			tasks = append(tasks, task)
		}
		for _, task := range tasks {
			if err := promised.UnPipeline(task); err != nil {
				klog.ErrorS(err, "A promise could not be taken back", "pod", klog.KObj(task.Pod))
			}
		}
	}
}
