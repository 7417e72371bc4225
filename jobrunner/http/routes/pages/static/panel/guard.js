// The one way to the network that no policy of a page closes: calls between browsers ask a server first.
// It stands before everything else of a panel, and what it takes away does not come back.
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCIceTransport", "WebTransport"]) {
  delete window[name];
  Object.defineProperty(window, name, { value: undefined, writable: false, configurable: false });
}
