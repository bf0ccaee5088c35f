// Opens the graphical console of the node that the path names, with noVNC. Where the API wants to know who asks, the person gives a
// token, which goes along as a subprotocol and is kept nowhere. Where the machine's display wants a password of its own, the person gives it.
import RFB from '../novnc/core/rfb.js';

const node = decodeURIComponent(location.pathname.split('/').pop());
const root = new URL('..', location.href);
const state = document.getElementById('state');
const who = document.getElementById('who');
const token = document.getElementById('token');
const display = document.getElementById('display');
const user = document.getElementById('user');
const keys = document.getElementById('keys');
const screen = document.getElementById('screen');

document.title = `Console of ${node}`;

// encoded is a header's value as a subprotocol may hold it: base64url without padding.
function encoded(text) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function open() {
  const protocols = ['binary'];
  if (token.value) {
    protocols.push(`ironyard.token.${encoded(token.value)}`);
  }
  const url = new URL(`v1/nodes/${encodeURIComponent(node)}/states/console/stream`, root);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  state.textContent = `Opening the console of ${node}…`;
  who.hidden = true;
  const rfb = new RFB(screen, url.href, { wsProtocols: protocols, shared: true });
  rfb.scaleViewport = true;
  let connected = false;
  let refused = '';
  rfb.addEventListener('credentialsrequired', (event) => {
    state.textContent = `The display of ${node} asks for a password of its own:`;
    user.hidden = !event.detail.types.includes('username');
    display.hidden = false;
    display.onsubmit = (submitted) => {
      submitted.preventDefault();
      display.hidden = true;
      rfb.sendCredentials({ username: display.elements.username.value, password: display.elements.password.value, target: '' });
      display.reset();
    };
  });
  rfb.addEventListener('securityfailure', (event) => {
    refused = `The display of ${node} lets nobody in: ${event.detail.reason || 'it gives no reason'}. Try again:`;
  });
  rfb.addEventListener('connect', () => {
    connected = true;
    state.textContent = `Console of ${node}`;
    keys.hidden = false;
    keys.onclick = () => { rfb.sendCtrlAltDel(); rfb.focus(); };
    rfb.focus();
  });
  rfb.addEventListener('disconnect', () => {
    state.textContent = refused || (connected
      ? 'The console has ended. Open it again:'
      : 'The console was not opened. Is it enabled? If the API asks who you are, give a token:');
    keys.hidden = true;
    display.hidden = true;
    who.hidden = false;
  });
}

who.addEventListener('submit', (event) => {
  event.preventDefault();
  open();
});

open();
