package topics

import "github.com/spillgate/spillgate/lab/experiment"

func adaptor() experiment.Experiment   { return experiment.Experiment{} }
func migration() experiment.Experiment { return experiment.Experiment{} }
func randomly() experiment.Experiment  { return experiment.Experiment{} }
