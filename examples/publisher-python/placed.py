"""A publisher of MQTT 5 that goes to the broker node where it belongs.

    python3 placed.py sensors 127.0.0.1:1883 127.0.0.1:1884

Placed is all that following takes, with paho-mqtt 1.6 or 2 (pip install paho-mqtt). Copy it.
"""

import sys
import threading
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

USE_ANOTHER_SERVER, SERVER_MOVED = 0x9C, 0x9D


class Placed:
    """A client of one of several servers, which tells it where to go.

    It says at CONNECT that it follows a Server Reference, what topic it is going to
    publish to, the group of publishers that publish at the same instants, and the p99 that it asks for,
    such as "5ms", which counts if the topic's owner allows that. What is not acknowledged is published again at the
    next node.
    """

    def __init__(self, client_id, topic, servers, group="", objective=""):
        self.servers, self.tried, self.reference = list(servers), 0, None
        self.up, self.ended = threading.Event(), False
        version = {}
        if hasattr(mqtt, "CallbackAPIVersion"):  # paho-mqtt 2
            version["callback_api_version"] = mqtt.CallbackAPIVersion.VERSION2
        self.client = mqtt.Client(client_id=client_id, protocol=mqtt.MQTTv5, **version)
        self.client.on_connect, self.client.on_disconnect = self._connected, self._disconnected
        self.properties = Properties(PacketTypes.CONNECT)
        self.properties.SessionExpiryInterval = 300
        self.properties.UserProperty = [("spillgate-redirect", "1"), ("spillgate-topic", topic)]
        if group:
            self.properties.UserProperty = [*self.properties.UserProperty, ("spillgate-group", group)]
        if objective:
            self.properties.UserProperty = [*self.properties.UserProperty, ("spillgate-objective", objective)]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def publish(self, topic, payload, qos=1, timeout=30):
        """Publishes, and returns when the message is acknowledged."""
        self.up.wait(timeout)
        self.client.publish(topic, payload, qos=qos).wait_for_publish(timeout)

    def close(self):
        self.ended = True
        self.client.disconnect()
        self.thread.join(5)

    def _run(self):
        while not self.ended:
            server, self.reference = self.reference, None
            if server is None:
                server = self.servers[self.tried % len(self.servers)]
                self.tried += 1
            host, port = server.rsplit(":", 1)
            try:
                self.client.connect(host, int(port), keepalive=30, clean_start=False, properties=self.properties)
                while self.client.loop(1) == mqtt.MQTT_ERR_SUCCESS:
                    pass
            except OSError:
                pass
            self.up.clear()
            if self.reference is None and not self.ended:
                time.sleep(0.1)

    def _refer(self, reason, properties):
        if getattr(reason, "value", reason) in (USE_ANOTHER_SERVER, SERVER_MOVED):
            self.reference = getattr(properties, "ServerReference", None)

    def _connected(self, client, userdata, flags, reason, properties):
        self._refer(reason, properties)
        if reason.value < 0x80:
            self.up.set()

    def _disconnected(self, client, userdata, *told):
        self.up.clear()
        self._refer(*told[-2:])  # paho-mqtt 2 has flags in front


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: placed.py TOPIC HOST:PORT...")
    publisher = Placed("example-publisher-python", sys.argv[1], sys.argv[2:], objective="5ms")
    try:
        for n in range(1, 1_000_000):
            publisher.publish(sys.argv[1], str(n))
            if n % 10 == 0:
                print(n, "published", flush=True)
            time.sleep(0.1)
    except KeyboardInterrupt:
        publisher.close()
