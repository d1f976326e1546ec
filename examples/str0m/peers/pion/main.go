// A user of pion/webrtc that does what lines of its input say. It returns every message on its channel, except on channels whose label
// begins with "count", and writes a line for what happens: "= ..." if it went well and "! ..." if not.
//
//	offer, answer HEX, accept HEX             session descriptions, in hexadecimal
//	open LABEL PROTOCOL ORDER RELIABILITY     "-" is no protocol; "ordered", "unordered"; "reliable", "rexmits:N", "lifetime:MS"
//	send LABEL KIND NUMBER COUNT LENGTH       "text" or "binary"; COUNT messages, numbered from NUMBER on
//	count LABEL                               how many messages have come, and whether their numbers increased
//	close LABEL, end                          a channel, the connection
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"
)

const maxMessage = 256 * 1024

var output sync.Mutex

func say(format string, arguments ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", arguments...)
}

// Ends the program if something that must work does not.
func must(err error) {
	if err != nil {
		say("! %v", err)
		os.Exit(1)
	}
}

// A channel, and the messages that have come.
type channel struct {
	*webrtc.DataChannel
	mutex      sync.Mutex
	count      int
	last       int64
	increasing bool
}

type peer struct {
	connection *webrtc.PeerConnection
	mutex      sync.Mutex
	channels   map[string]*channel // the newest of each label
}

// The content of a message; the test has the same rule.
func content(text bool, number uint32, length int) []byte {
	data := make([]byte, length)
	for at := range data {
		if text {
			data[at] = 'a' + byte((at*7+int(number))%26)
		} else {
			data[at] = byte(at*7 + int(number))
		}
	}
	if !text && length >= 4 {
		binary.BigEndian.PutUint32(data, number)
	}
	return data
}

func send(channel *webrtc.DataChannel, text bool, data []byte) error {
	if text {
		return channel.SendText(string(data))
	}
	return channel.Send(data)
}

func settings(channel *webrtc.DataChannel) string {
	protocol, order, reliability := channel.Protocol(), "unordered", "reliable"
	if protocol == "" {
		protocol = "-"
	}
	if channel.Ordered() {
		order = "ordered"
	}
	if limit := channel.MaxRetransmits(); limit != nil {
		reliability = fmt.Sprintf("rexmits:%d", *limit)
	} else if limit := channel.MaxPacketLifeTime(); limit != nil {
		reliability = fmt.Sprintf("lifetime:%d", *limit)
	}
	return protocol + " " + order + " " + reliability
}

func (p *peer) use(dataChannel *webrtc.DataChannel) {
	own := &channel{DataChannel: dataChannel, last: -1, increasing: true}
	label := dataChannel.Label()
	p.mutex.Lock()
	p.channels[label] = own
	p.mutex.Unlock()
	dataChannel.OnOpen(func() { say("= opened %s %s", label, settings(dataChannel)) })
	dataChannel.OnClose(func() { say("= closed %s", label) })
	dataChannel.OnMessage(func(message webrtc.DataChannelMessage) {
		if !strings.HasPrefix(label, "count") {
			if err := send(dataChannel, message.IsString, message.Data); err != nil {
				say("! echo on %s: %v", label, err)
			}
			return
		}
		own.mutex.Lock()
		defer own.mutex.Unlock()
		own.count++
		if len(message.Data) < 4 {
			return
		}
		number := int64(binary.BigEndian.Uint32(message.Data))
		if string(message.Data) != string(content(false, uint32(number), len(message.Data))) {
			say("! message %d on %s has another content", number, label)
		}
		own.increasing = own.increasing && number > own.last
		own.last = number
	})
}

func (p *peer) channel(label string) *channel {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.channels[label]
}

// Sets the own description, with all candidates, and writes it.
func (p *peer) describe(description webrtc.SessionDescription) {
	gathered := webrtc.GatheringCompletePromise(p.connection)
	must(p.connection.SetLocalDescription(description))
	<-gathered
	say("= description %s", hex.EncodeToString([]byte(p.connection.LocalDescription().SDP)))
}

func (p *peer) take(kind webrtc.SDPType, encoded string) {
	sdp, err := hex.DecodeString(encoded)
	must(err)
	must(p.connection.SetRemoteDescription(webrtc.SessionDescription{Type: kind, SDP: string(sdp)}))
}

func (p *peer) open(label, protocol, order, reliability string) {
	ordered := order == "ordered"
	init := webrtc.DataChannelInit{Ordered: &ordered}
	if protocol != "-" {
		init.Protocol = &protocol
	}
	kind, value, limited := strings.Cut(reliability, ":")
	if limited {
		number, err := strconv.ParseUint(value, 10, 16)
		must(err)
		limit := uint16(number)
		if kind == "rexmits" {
			init.MaxRetransmits = &limit
		} else {
			init.MaxPacketLifeTime = &limit
		}
	}
	dataChannel, err := p.connection.CreateDataChannel(label, &init)
	must(err)
	p.use(dataChannel)
}

func (p *peer) send(label, kind, number, count, length string) {
	numbers := [3]int{}
	for at, word := range []string{number, count, length} {
		value, err := strconv.Atoi(word)
		must(err)
		numbers[at] = value
	}
	channel := p.channel(label)
	for at := range numbers[1] {
		must(send(channel.DataChannel, kind == "text", content(kind == "text", uint32(numbers[0]+at), numbers[2])))
	}
}

func (p *peer) run(words []string) {
	switch words[0] {
	case "offer":
		offer, err := p.connection.CreateOffer(nil)
		must(err)
		p.describe(offer)
	case "answer":
		p.take(webrtc.SDPTypeOffer, words[1])
		answer, err := p.connection.CreateAnswer(nil)
		must(err)
		p.describe(answer)
	case "accept":
		p.take(webrtc.SDPTypeAnswer, words[1])
		say("= accepted")
	case "open":
		p.open(words[1], words[2], words[3], words[4])
	case "send":
		p.send(words[1], words[2], words[3], words[4], words[5])
	case "count":
		channel := p.channel(words[1])
		channel.mutex.Lock()
		defer channel.mutex.Unlock()
		order := "mixed"
		if channel.increasing {
			order = "increasing"
		}
		say("= count %s %d %s", words[1], channel.count, order)
	case "close":
		must(p.channel(words[1]).Close())
	case "end":
		must(p.connection.Close())
		say("= ended")
	default:
		say("! there is no command %q", words[0])
	}
}

func main() {
	engine := webrtc.SettingEngine{}
	engine.SetIncludeLoopbackCandidate(true)
	engine.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	engine.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	engine.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	engine.SetSCTPMaxMessageSize(maxMessage)
	connection, err := webrtc.NewAPI(webrtc.WithSettingEngine(engine)).NewPeerConnection(webrtc.Configuration{})
	must(err)
	p := &peer{connection: connection, channels: map[string]*channel{}}
	connection.OnDataChannel(p.use)
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			return
		}
		p.run(strings.Fields(line))
	}
}
