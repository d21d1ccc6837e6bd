package apache

// Setup returns what an administrator does once.
func Setup(string) string {
	return `# What spillgate guard needs of Apache httpd 2.4, MPM prefork to cancel. As root, once:
#   make -C tracer/apache install         # builds and installs mod_spillgate.so; needs apache2-dev
#   install -d -m 700 /run/spillgate      # the user who starts Apache, and the guard
# In the configuration of Apache:
LoadModule spillgate_module modules/mod_spillgate.so
SpillgateTaskFile /run/spillgate/apache.tasks
# Then, as the same user: spillgate guard --slo 500ms apache://127.0.0.1:80/run/spillgate/apache.tasks
# A request is cancelled as if its client had gone, whatever it has done so far: deny what must not
# end half done, such as --deny kind=write, or allow only what may (only: true).
# mod_reqtimeout and a Timeout that fits the objective are worth having beside it.
`
}
