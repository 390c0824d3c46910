package clickhouse

// configuration takes the folder, the native and the HTTP port, and what a server of a cluster has
// besides. The caches are small, because several servers may run at once.
const configuration = `<yandex>
  <logger><level>warning</level><log>%[1]s/log</log><errorlog>%[1]s/log</errorlog></logger>
  <listen_host>127.0.0.1</listen_host>
  <tcp_port>%[2]d</tcp_port>
  <http_port>%[3]d</http_port>
  <path>%[1]s/data/</path>
  <tmp_path>%[1]s/tmp/</tmp_path>
  <user_files_path>%[1]s/files/</user_files_path>
  <format_schema_path>%[1]s/schemas/</format_schema_path>
  <users_config>%[1]s/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <mark_cache_size>67108864</mark_cache_size>
  <uncompressed_cache_size>67108864</uncompressed_cache_size>
  <query_log><database>system</database><table>query_log</table><flush_interval_milliseconds>1000</flush_interval_milliseconds></query_log>
%[4]s</yandex>
`

// users has one, who may do everything from this machine.
const users = `<yandex>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>
`

// member is what a server of a cluster has: its port for other servers, that of the keeper, its
// shard and its number in the shard, and the text of all shards. Sessions are short, and what
// became of them is looked at each second and not each minute: what failed is back soon.
const member = `  <interserver_http_port>%[1]d</interserver_http_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <zookeeper><node><host>127.0.0.1</host><port>%[2]d</port></node><session_timeout_ms>3000</session_timeout_ms></zookeeper>
  <merge_tree><zookeeper_session_expiration_check_period>1</zookeeper_session_expiration_check_period></merge_tree>
  <macros><shard>%[3]d</shard><replica>%[4]d</replica></macros>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
  <remote_servers><` + ClusterName + `>%[5]s</` + ClusterName + `></remote_servers>
`
