package statelog

// Tell makes other servers of the place hear of records: tell is called with their project.
// Call it before the first record.
func (l *Log) Tell(tell func(workspace, project string)) { l.tell = tell }

// Heard says that another server took records of a project.
func (l *Log) Heard(workspace, project string) { l.wake(workspace + "/" + project) }

// Missed says that others may have done anything: what is kept of the records is read again.
func (l *Log) Missed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.graves)
	clear(l.chains)
	for project, c := range l.news {
		close(c)
		delete(l.news, project)
	}
}

// took tells all that wait for news of a project, here and at other servers.
func (l *Log) took(workspace, project string) {
	l.wake(workspace + "/" + project)
	if l.tell != nil {
		l.tell(workspace, project)
	}
}

// wake tells those that wait for news of a project.
func (l *Log) wake(project string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.news[project]; c != nil {
		close(c)
		delete(l.news, project)
	}
}

// newsOf is closed with the next record of a project.
func (l *Log) newsOf(project string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.news[project]
	if c == nil {
		c = make(chan struct{})
		l.news[project] = c
	}
	return c
}
