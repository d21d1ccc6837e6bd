# What the sources of tracer/opensearch call differently in Elasticsearch 8.
s/spillgate\.opensearch/spillgate.elasticsearch/g
s/org\.opensearch\.core\.concurrency\./org.elasticsearch.common.util.concurrent./g
s/org\.opensearch\.core\./org.elasticsearch./g
s/org\.opensearch\./org.elasticsearch./g
s/OpenSearchStatusException/ElasticsearchStatusException/g
s/newStoredContext(true)/newStoredContextPreservingResponseHeaders()/g
s/Task\.X_OPAQUE_ID\b/Task.X_OPAQUE_ID_HTTP_HEADER/g
s/OpenSearch/Elasticsearch/g
