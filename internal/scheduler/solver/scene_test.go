package solver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/words"
)

// scene is a problem whose nodes, quotas, limits and jobs have names.
type scene struct {
	*Problem
	nodes, quotas, limits, jobs []string
}

// newScene reads a problem from a text, one object a line, behind those that it names:
//
//	node NAME          a full node, or cards= and cpu= that are free; quota= of its card (the first)
//	quota NAME left=   what is left at each level of the tree of queues, from the own queue up to root
//	limit NAME most=   what may be taken from a queue and all below it, borrowed=true
//	pending pods=      cards= and cpu= of each pod, nodes= (all), uses= of quotas wherever it runs
//	job NAME running=NODE[*N],…
//
// Words of a job for each of its pods are loss=, cards= (1), cpu=, releases= of quotas, counts= against limits, onlyCounts=true;
// for itself whole=false, elastic=, level=, rank= (and of its pods), jobRank= (alone), wholeLoss=, and by role roleElastic=, roles= of its
// pods. A line "pod JOB INDEX" changes one pod. Lists are "NAME[*N],…". Without a quota there is one of 1000 cards.
func newScene(text string) *scene {
	s := &scene{Problem: &Problem{}}
	for _, line := range words.Lines(text) {
		if err := s.addLine(line); err != nil {
			panic(err)
		}
	}
	if len(s.Quotas) == 0 {
		s.Quotas = flatQuotas(1000)
	}
	return s
}

func (s *scene) addLine(line words.Line) error {
	switch line.Verb {
	case "node":
		s.nodes = append(s.nodes, line.Name())
		s.Nodes = append(s.Nodes, Node{Free: Amounts{0, 0}})
		return words.Apply(line, &s.Nodes[len(s.Nodes)-1], words.Keys[*Node]{
			"cards": words.Int(func(n *Node, cards int) { n.Free[0] = float64(cards) }),
			"cpu":   words.Int(func(n *Node, cpu int) { n.Free[1] = float64(cpu) }),
			"quota": words.Text(func(n *Node, name string) { n.Quota = parseAmounts(s.quotas, name)[0].Quota }),
		})
	case "quota":
		s.quotas = append(s.quotas, line.Name())
		s.Quotas = append(s.Quotas, Quota{Levels: parseNumbers[int64](line.Value("left"))})
	case "limit":
		s.limits = append(s.limits, line.Name())
		s.TakeLimits = append(s.TakeLimits, TakeLimit{Most: parseNumbers[int64](line.Value("most"))[0], Borrowed: line.Value("borrowed") == "true"})
	case "pending":
		s.PodSets = append(s.PodSets, PodSet{Request: Amounts{0, 0}, Nodes: indexesOf(s.nodes, s.nodes)})
		return words.Apply(line, &s.PodSets[len(s.PodSets)-1], s.podSetKeys(), "pods")
	case "job":
		s.jobs = append(s.jobs, line.Name())
		s.Jobs = append(s.Jobs, Job{Whole: true})
		return words.Apply(line, &s.Jobs[len(s.Jobs)-1], s.jobKeys(), "running")
	case "pod":
		job := &s.Jobs[indexesOf(s.jobs, line.Names[:1])[0]]
		return words.Apply(line, &job.Pods[parseNumbers[int](line.Names[1])[0]], s.podKeys())
	default:
		return line.Errorf("unknown verb")
	}

	return nil
}

func (s *scene) podSetKeys() words.Keys[*PodSet] {
	return words.Keys[*PodSet]{
		"pods": words.Int(func(p *PodSet, pods int) { p.Count = pods }),
		"cards": words.Int(func(p *PodSet, cards int) {
			p.Request[0] = float64(cards)
			p.Cards = int64(cards)
		}),
		"cpu":   words.Int(func(p *PodSet, cpu int) { p.Request[1] = float64(cpu) }),
		"nodes": words.Text(func(p *PodSet, names string) { p.Nodes = indexesOf(s.nodes, strings.Split(names, ",")) }),
		"uses":  words.Text(func(p *PodSet, amounts string) { p.Uses = parseAmounts(s.quotas, amounts) }),
	}
}

func (s *scene) podKeys() words.Keys[*Pod] {
	return words.Keys[*Pod]{
		"cards":      setCards,
		"cpu":        words.Int(func(p *Pod, cpu int) { p.Usage = Amounts{p.Usage[0], float64(cpu)} }),
		"loss":       words.Int(func(p *Pod, loss int) { p.Loss = int64(loss) }),
		"rank":       words.Int(func(p *Pod, rank int) { p.Rank = rank }),
		"protected":  words.OneOf(func(p *Pod, _ string) { p.Protected = true }, "true"),
		"onlyCounts": words.OneOf(func(p *Pod, _ string) { p.OnlyCounts = true }, "true"),
		"releases":   words.Text(func(p *Pod, amounts string) { p.Releases = parseAmounts(s.quotas, amounts) }),
		"counts":     words.Text(func(p *Pod, amounts string) { p.setTakes(parseAmounts(s.limits, amounts)) }),
	}
}

func setCards(p *Pod, cards string) (err error) {
	p.Usage[0], err = strconv.ParseFloat(cards, 64)
	return err
}

func (p *Pod) setTakes(amounts []QuotaAmount) {
	p.Takes = nil
	for _, x := range amounts {
		p.Takes = append(p.Takes, TakeAmount{x.Quota, x.Amount})
	}
}

func (s *scene) jobKeys() words.Keys[*Job] {
	keys := words.Keys[*Job]{
		"running": words.Text(func(j *Job, nodes string) {
			for _, x := range parseAmounts(s.nodes, nodes) {
				for range x.Amount {
					j.Pods = append(j.Pods, Pod{Node: x.Quota, Usage: Amounts{1}})
				}
			}
		}),
		"whole":       words.OneOf(func(j *Job, _ string) { j.Whole = false }, "false"),
		"elastic":     words.Int(func(j *Job, pods int) { j.Elastic = pods }),
		"level":       words.Int(func(j *Job, level int) { j.Level = level }),
		"jobRank":     words.Int(func(j *Job, rank int) { j.Rank = rank }),
		"wholeLoss":   words.Int(func(j *Job, loss int) { j.WholeLoss = int64(loss) }),
		"roleElastic": words.Text(func(j *Job, pods string) { j.RoleElastic = parseNumbers[int](pods) }),
		"roles": words.Text(func(j *Job, roles string) {
			for i, role := range parseNumbers[int](roles) {
				j.Pods[i].Role = role
			}
		}),
	}

	for key, set := range s.podKeys() {
		keys[key] = func(j *Job, value string) (err error) {
			for i := range j.Pods {
				err = set(&j.Pods[i], value)
			}
			return err
		}
	}
	keys["rank"] = words.Int(func(j *Job, rank int) { *j = withRank(rank, *j) })

	return keys
}

// indexesOf returns the indexes of some names among all.
func indexesOf(all, names []string) (indexes []int) {
	for _, name := range names {
		if !slices.Contains(all, name) {
			panic(fmt.Sprintf("%q is none of %q", name, all))
		}
		indexes = append(indexes, slices.Index(all, name))
	}
	return indexes
}

// parseAmounts reads "NAME[*N],…", where each name stands for its index. The amount is 1 without *N.
func parseAmounts(names []string, text string) (amounts []QuotaAmount) {
	for part := range strings.SplitSeq(text, ",") {
		name, count, _ := strings.Cut(part+"*1", "*")
		amounts = append(amounts, QuotaAmount{
			Quota:  indexesOf(names, []string{name})[0],
			Amount: parseNumbers[int64](strings.TrimSuffix(count, "*1"))[0],
		})
	}
	return amounts
}

func parseNumbers[Number ~int | ~int64](text string) (numbers []Number) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			panic(err)
		}
		numbers = append(numbers, Number(n))
	}
	return numbers
}

// formatVictims returns the victims of a plan: JOB for a whole job, and JOB-INDEX for a single pod.
func (s *scene) formatVictims(plan *Plan) string {
	var names []string
	for _, victims := range plan.Victims {
		if victims.Whole {
			names = append(names, s.jobs[victims.Job])
		}
		for _, i := range victims.Pods {
			names = append(names, fmt.Sprint(s.jobs[victims.Job], "-", i))
		}
	}
	return strings.Join(names, " ")
}

// victimsCase is a scene with its expected victims, "" for none. "no plan" means that no choice of victims suffices.
type victimsCase struct {
	scene, want string
}

// checkVictims checks the victims in each case, and that the plan is valid.
func checkVictims(t *testing.T, cases map[string]victimsCase) {
	for t, tc := range check.Cases(t, cases) {
		s := newScene(tc.scene)
		if plan := solveIfPossible(t, s.Problem, tc.want != "no plan"); plan != nil {
			check.Equal(t, "victims", tc.want, s.formatVictims(plan))
		}
	}
}
